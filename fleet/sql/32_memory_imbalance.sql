-- How unequally the ranks fill their memory.
-- One row a job and attempt; bytes. ratio: the largest peak by the mean. largest_rank has it.
WITH peaks AS (
  SELECT job, attempt, rank, MAX(mem_peak_bytes) AS peak FROM steps WHERE mem_peak_bytes IS NOT NULL GROUP BY job, attempt, rank),
most AS (
  SELECT job, attempt, MAX(peak) AS peak FROM peaks GROUP BY job, attempt)
SELECT p.job, p.attempt, MAX(p.peak) AS largest_bytes, MIN(p.peak) AS smallest_bytes,
       MIN(CASE WHEN p.peak = m.peak THEN p.rank END) AS largest_rank, MAX(p.peak) * 1e0 / NULLIF(AVG(p.peak), 0e0) AS ratio
FROM peaks p JOIN most m ON p.job = m.job AND p.attempt = m.attempt
GROUP BY p.job, p.attempt
ORDER BY p.job, p.attempt
