-- How alike the ranks are: what can be compared, and how far the slowest is from the rest.
-- One row a job and attempt. ranks: with steps; ranks_compared: that have at least two others like them in the same steps;
-- steps: of the rank with the fewest; largest_score: the largest excess of a rank, as a share of the step.
WITH own AS (
  SELECT job, attempt, COUNT(DISTINCT rank) AS ranks, COUNT(DISTINCT step) AS all_steps, MEDIAN(duration_ns) AS step_ns
  FROM own_time GROUP BY job, attempt),
fewest AS (
  SELECT job, attempt, MIN(steps) AS steps FROM cohorts GROUP BY job, attempt),
compared AS (
  SELECT job, attempt, COUNT(*) AS ranks_compared, MAX(score) AS largest_score, SUM(is_slow) AS slow_ranks
  FROM ranks GROUP BY job, attempt)
SELECT o.job, o.attempt, o.ranks, COALESCE(c.ranks_compared, 0) AS ranks_compared, f.steps, o.step_ns, c.largest_score,
       COALESCE(c.slow_ranks, 0) AS slow_ranks
FROM own o JOIN fewest f ON o.job = f.job AND o.attempt = f.attempt
LEFT JOIN compared c ON o.job = c.job AND o.attempt = c.attempt
ORDER BY o.job, o.attempt
