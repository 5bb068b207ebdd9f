-- Which GPUs take longer for the same kernels.
-- One row a rank, the slowest twenty. gpu_score: the median of the ranks by the rank's own median time of each kernel, weighted by
-- time: 1 is usual, 0.5 takes twice as long. Kernels of communication are left out, as they wait; so are those of fewer than three
-- ranks.
WITH usual AS (
  SELECT job, attempt, name, MEDIAN(median_ns) AS middle_ns, COUNT(DISTINCT rank) AS ranks
  FROM rank_kernels
  GROUP BY job, attempt, name)
SELECT k.job, k.attempt, k.rank, k.host, SUM(k.total_ns * (u.middle_ns / k.median_ns)) / NULLIF(SUM(k.total_ns), 0) AS gpu_score,
       COUNT(*) AS kernels_compared, SUM(k.total_ns) AS total_ns
FROM rank_kernels k JOIN usual u ON k.job = u.job AND k.attempt = u.attempt AND k.name = u.name
WHERE u.ranks > 2
GROUP BY k.job, k.attempt, k.rank, k.host
ORDER BY gpu_score, k.job, k.attempt, k.rank
LIMIT 20
