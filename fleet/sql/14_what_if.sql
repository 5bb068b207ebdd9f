-- What perfect balance would give: how much shorter steps were if nobody were slower than the ranks that are alike.
-- One row a job and attempt. lost_ns: the sum over the steps of the largest excess of a rank in it; it is an upper bound, as noise
-- is in it. slow_lost_ns: how much of that goes away if the ranks that stand out (is_slow) were as the others. Shares: of the time
-- of the steps.
WITH by_step AS (
  SELECT e.job, e.attempt, e.step, MAX(e.excess_ns) AS all_ns, MAX(CASE WHEN r.is_slow = 1 THEN 0e0 ELSE e.excess_ns END) AS others_ns,
         MAX(e.cohort_duration_ns) AS step_ns
  FROM excess e JOIN ranks r ON e.job = r.job AND e.attempt = r.attempt AND e.rank = r.rank
  GROUP BY e.job, e.attempt, e.step)
SELECT job, attempt, COUNT(*) AS steps, SUM(step_ns) AS duration_ns, SUM(GREATEST(all_ns, 0e0)) AS lost_ns,
       SUM(GREATEST(all_ns, 0e0)) / NULLIF(SUM(step_ns), 0e0) AS share,
       SUM(GREATEST(all_ns, 0e0) - GREATEST(others_ns, 0e0)) AS slow_lost_ns,
       SUM(GREATEST(all_ns, 0e0) - GREATEST(others_ns, 0e0)) / NULLIF(SUM(step_ns), 0e0) AS slow_share
FROM by_step
GROUP BY job, attempt
ORDER BY job, attempt
