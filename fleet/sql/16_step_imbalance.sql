-- How unequal the ranks are in each step.
-- One row a step; ns of own time. imbalance: (slowest less mean) / slowest; lost_ns: slowest less median.
WITH by_step AS (
  SELECT job, attempt, step, MAX(own_ns) AS slowest_ns, AVG(own_ns) AS mean_ns, MEDIAN(own_ns) AS median_ns, COUNT(*) AS ranks
  FROM own_time GROUP BY job, attempt, step),
who AS (
  SELECT o.job, o.attempt, o.step, MIN(o.rank) AS slowest_rank
  FROM own_time o JOIN by_step b ON o.job = b.job AND o.attempt = b.attempt AND o.step = b.step AND o.own_ns = b.slowest_ns
  GROUP BY o.job, o.attempt, o.step)
SELECT b.job, b.attempt, b.step, b.slowest_ns, b.mean_ns, b.median_ns, (b.slowest_ns - b.mean_ns) / NULLIF(b.slowest_ns, 0) AS imbalance,
       b.slowest_ns - b.median_ns AS lost_ns, w.slowest_rank, b.ranks
FROM by_step b JOIN who w ON b.job = w.job AND b.attempt = w.attempt AND b.step = w.step
ORDER BY b.job, b.attempt, b.step
