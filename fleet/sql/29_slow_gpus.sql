-- Which GPUs take longer for the same kernels.
-- One row a rank, the slowest twenty. gpu_score: the median of the ranks by the rank's own median time of each kernel, weighted by
-- time: 1 is usual, 0.5 takes twice as long. Kernels of communication are left out, as they wait; so are those of fewer than three
-- ranks.
WITH main_kernels AS (
  SELECT k.* FROM kernels k JOIN captures p ON p.input = k.input AND p.is_main = 1),
usual AS (
  SELECT job, attempt, name, MEDIAN(median_ns) AS middle_ns, COUNT(DISTINCT rank) AS ranks
  FROM main_kernels
  WHERE is_communication = 0 AND kind = 'kernel' AND median_ns > 0
  GROUP BY job, attempt, name)
SELECT k.job, k.attempt, k.rank, k.host, SUM(k.total_ns * (u.middle_ns / k.median_ns)) / NULLIF(SUM(k.total_ns), 0) AS gpu_score,
       COUNT(*) AS kernels_compared, SUM(k.total_ns) AS total_ns
FROM main_kernels k JOIN usual u ON k.job = u.job AND k.attempt = u.attempt AND k.name = u.name
WHERE u.ranks > 2 AND k.is_communication = 0 AND k.kind = 'kernel' AND k.median_ns > 0
GROUP BY k.job, k.attempt, k.rank, k.host
ORDER BY gpu_score, k.job, k.attempt, k.rank
LIMIT 20
