-- What excess of a part is usual among ranks that are alike, and by how much it differs from rank to rank.
-- A view: other questions build on it. One row a cohort and part; ns a step. usual_ns: the median over the ranks of their mean
-- excess; mad_ns: the median of the distances from that.
WITH by_rank AS (
  SELECT job, attempt, cohort, part, rank, AVG(ns) AS ns FROM step_excess GROUP BY job, attempt, cohort, part, rank),
centre AS (
  SELECT job, attempt, cohort, part, MEDIAN(ns) AS ns FROM by_rank GROUP BY job, attempt, cohort, part)
SELECT r.job, r.attempt, r.cohort, r.part, MAX(c.ns) AS usual_ns, MEDIAN(ABS(r.ns - c.ns)) AS mad_ns
FROM by_rank r JOIN centre c ON r.job = c.job AND r.attempt = c.attempt AND r.cohort = c.cohort AND r.part = c.part
GROUP BY r.job, r.attempt, r.cohort, r.part
