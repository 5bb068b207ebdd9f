-- Why GPUs had nothing to do, and where that is more than elsewhere.
-- One row a rank and cause, the largest excess over the median of the ranks that are alike (cohorts) first, twenty of them; ns.
WITH t AS (
  SELECT i.job, i.attempt, i.rank, COALESCE(c.cohort, -1) AS cohort, i.main_cause, SUM(i.duration_ns) AS idle_ns, COUNT(*) AS gaps
  FROM gpu_idle i JOIN captures k ON k.input = i.input AND k.is_main = 1
  LEFT JOIN cohorts c ON i.job = c.job AND i.attempt = c.attempt AND i.rank = c.rank
  GROUP BY i.job, i.attempt, i.rank, COALESCE(c.cohort, -1), i.main_cause),
m AS (
  SELECT job, attempt, cohort, main_cause, MEDIAN(idle_ns) AS middle_ns FROM t GROUP BY job, attempt, cohort, main_cause)
SELECT t.job, t.attempt, t.rank, t.main_cause, t.gaps, t.idle_ns, t.idle_ns - m.middle_ns AS excess_ns
FROM t JOIN m ON t.job = m.job AND t.attempt = m.attempt AND t.cohort = m.cohort AND t.main_cause = m.main_cause
ORDER BY excess_ns DESC, t.job, t.attempt, t.rank, t.main_cause
LIMIT 20
