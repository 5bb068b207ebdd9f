-- Which operators take longer on one rank than on those that are alike.
-- One row a rank and operator, the largest excess first, twenty of them; ns a step of the operators' own time.
WITH own AS (
  SELECT o.job, o.attempt, o.rank, c.host, c.cohort, o.name, o.self_ns * 1e0 / c.steps AS self_ns, o.calls * 1e0 / c.steps AS calls
  FROM rank_operators o JOIN cohorts c ON o.job = c.job AND o.attempt = c.attempt AND o.rank = c.rank),
m AS (
  SELECT job, attempt, cohort, name, MEDIAN(self_ns) AS middle_ns, COUNT(*) AS ranks FROM own GROUP BY job, attempt, cohort, name)
SELECT o.job, o.attempt, o.rank, o.host, o.name, o.calls, o.self_ns, o.self_ns - m.middle_ns AS excess_ns
FROM own o JOIN m ON o.job = m.job AND o.attempt = m.attempt AND o.cohort = m.cohort AND o.name = m.name
WHERE m.ranks > 2
ORDER BY excess_ns DESC, o.job, o.attempt, o.rank, o.name
LIMIT 20
