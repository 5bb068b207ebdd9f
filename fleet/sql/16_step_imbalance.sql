-- How unequal the ranks are in each step.
-- One row a step and cohort, the ranks that are alike; ns of own time. imbalance: (slowest less mean) / slowest; lost_ns: slowest
-- less median.
WITH own AS (
  SELECT o.job, o.attempt, c.cohort, o.rank, o.step, o.own_ns
  FROM own_time o JOIN cohorts c ON o.job = c.job AND o.attempt = c.attempt AND o.rank = c.rank),
by_step AS (
  SELECT job, attempt, cohort, step, MAX(own_ns) AS slowest_ns, AVG(own_ns) AS mean_ns, MEDIAN(own_ns) AS median_ns, COUNT(*) AS ranks
  FROM own GROUP BY job, attempt, cohort, step),
who AS (
  SELECT o.job, o.attempt, o.cohort, o.step, MIN(o.rank) AS slowest_rank
  FROM own o JOIN by_step b
    ON o.job = b.job AND o.attempt = b.attempt AND o.cohort = b.cohort AND o.step = b.step AND o.own_ns = b.slowest_ns
  GROUP BY o.job, o.attempt, o.cohort, o.step)
SELECT b.job, b.attempt, b.step, b.slowest_ns, b.mean_ns, b.median_ns, (b.slowest_ns - b.mean_ns) / NULLIF(b.slowest_ns, 0) AS imbalance,
       b.slowest_ns - b.median_ns AS lost_ns, w.slowest_rank, b.ranks, b.cohort
FROM by_step b JOIN who w ON b.job = w.job AND b.attempt = w.attempt AND b.cohort = w.cohort AND b.step = w.step
ORDER BY b.job, b.attempt, b.step, b.cohort
