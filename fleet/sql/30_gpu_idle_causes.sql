-- Why GPUs had nothing to do, and where that is more than elsewhere.
-- One row a rank and cause, the largest excess over the median of the ranks first, twenty of them; ns.
WITH t AS (
  SELECT i.job, i.attempt, i.rank, i.main_cause, SUM(i.duration_ns) AS idle_ns, COUNT(*) AS gaps
  FROM gpu_idle i JOIN captures k ON k.input = i.input AND k.is_main = 1
  GROUP BY i.job, i.attempt, i.rank, i.main_cause),
m AS (
  SELECT job, attempt, main_cause, MEDIAN(idle_ns) AS middle_ns FROM t GROUP BY job, attempt, main_cause)
SELECT t.job, t.attempt, t.rank, t.main_cause, t.gaps, t.idle_ns, t.idle_ns - m.middle_ns AS excess_ns
FROM t JOIN m ON t.job = m.job AND t.attempt = m.attempt AND t.main_cause = m.main_cause
ORDER BY excess_ns DESC, t.job, t.attempt, t.rank, t.main_cause
LIMIT 20
