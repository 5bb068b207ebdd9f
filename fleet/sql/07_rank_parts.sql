-- By how much each part of a rank's steps exceeds what is usual, while the rank is slow.
-- A view: other questions build on it. One row a rank and part of step_excess; ns a step, the mean over the steps from from_step to
-- to_step of slow_periods. place: 1 is the largest of those that have is_part 1.
WITH means AS (
  SELECT s.job, s.attempt, s.rank, s.part, s.is_part, AVG(s.ns - u.usual_ns) AS ns
  FROM step_excess s
  JOIN usual_excess u ON s.job = u.job AND s.attempt = u.attempt AND s.cohort = u.cohort AND s.part = u.part
  JOIN slow_periods p ON s.job = p.job AND s.attempt = p.attempt AND s.rank = p.rank
  WHERE s.step BETWEEN p.from_step AND p.to_step
  GROUP BY s.job, s.attempt, s.rank, s.part, s.is_part)
SELECT job, attempt, rank, part, is_part, ns,
       ROW_NUMBER() OVER (PARTITION BY job, attempt, rank ORDER BY is_part DESC, ns DESC, part) AS place
FROM means
