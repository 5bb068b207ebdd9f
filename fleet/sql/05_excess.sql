-- By how much each step of a rank is longer by its own doing than those of the ranks that are alike.
-- A view: other questions build on it. One row a rank and step, ns. excess_ns is the sum of the parts, each less what is usual;
-- where parts were not recorded, it is the own time's. As parts are compared one by one, several slow ranks hide each other only
-- where half of the ranks are slow for the same reason. spread_ns: by how much the mean of it differs from rank to rank usually.
-- cohort_duration_ns: the median of the ranks' whole steps.
WITH sums AS (
  SELECT s.job, s.attempt, s.cohort, s.rank, s.step,
         SUM(CASE WHEN s.is_part = 1 THEN s.ns - u.usual_ns END) AS parts_ns,
         SUM(CASE WHEN s.part = 'own time' THEN s.ns - u.usual_ns END) AS own_ns,
         SUM(CASE WHEN s.is_part = 1 THEN u.mad_ns * u.mad_ns END) AS parts_square,
         SUM(CASE WHEN s.part = 'own time' THEN u.mad_ns END) AS own_mad_ns
  FROM step_excess s JOIN usual_excess u
    ON s.job = u.job AND s.attempt = u.attempt AND s.cohort = u.cohort AND s.part = u.part
  GROUP BY s.job, s.attempt, s.cohort, s.rank, s.step),
durations AS (
  SELECT o.job, o.attempt, c.cohort, o.step, MEDIAN(o.duration_ns) AS duration_ns
  FROM own_time o JOIN cohorts c ON o.job = c.job AND o.attempt = c.attempt AND o.rank = c.rank
  GROUP BY o.job, o.attempt, c.cohort, o.step)
SELECT s.job, s.attempt, s.rank, c.host, s.step, s.cohort, c.cohort_ranks, d.duration_ns AS cohort_duration_ns,
       COALESCE(s.parts_ns, s.own_ns) AS excess_ns, 1.4826e0 * COALESCE(SQRT(s.parts_square), s.own_mad_ns) AS spread_ns,
       CASE WHEN s.parts_ns IS NULL THEN 0 ELSE 1 END AS has_parts
FROM sums s
JOIN cohorts c ON s.job = c.job AND s.attempt = c.attempt AND s.rank = c.rank
JOIN durations d ON s.job = d.job AND s.attempt = d.attempt AND s.cohort = d.cohort AND s.step = d.step
