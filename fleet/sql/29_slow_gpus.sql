-- Which GPUs take longer for the same kernels.
-- One row a rank, the slowest twenty. gpu_score: the median of the ranks that are alike (cohorts) by the rank's own median time of
-- each kernel, weighted by time: 1 is usual, 0.5 takes twice as long. Ranks without steps are alike where their GPUs are of one
-- kind. Kernels of communication are left out, as they wait; so are those of fewer than three ranks.
WITH own AS (
  SELECT k.job, k.attempt, k.rank, k.host, k.name, k.median_ns, k.total_ns, COALESCE(c.cohort, -1) AS cohort,
         CASE WHEN c.cohort IS NULL THEN COALESCE(k.gpu, '') ELSE '' END AS gpu
  FROM rank_kernels k LEFT JOIN cohorts c ON k.job = c.job AND k.attempt = c.attempt AND k.rank = c.rank),
usual AS (
  SELECT job, attempt, cohort, gpu, name, MEDIAN(median_ns) AS middle_ns, COUNT(DISTINCT rank) AS ranks
  FROM own
  GROUP BY job, attempt, cohort, gpu, name)
SELECT k.job, k.attempt, k.rank, k.host, SUM(k.total_ns * (u.middle_ns / k.median_ns)) / NULLIF(SUM(k.total_ns), 0) AS gpu_score,
       COUNT(*) AS kernels_compared, SUM(k.total_ns) AS total_ns
FROM own k JOIN usual u
  ON k.job = u.job AND k.attempt = u.attempt AND k.cohort = u.cohort AND k.gpu = u.gpu AND k.name = u.name
WHERE u.ranks > 2
GROUP BY k.job, k.attempt, k.rank, k.host
ORDER BY gpu_score, k.job, k.attempt, k.rank
LIMIT 20
