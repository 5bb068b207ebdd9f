-- Since when, and until when, a rank's excess is larger than at other times: its change points.
-- A view: other questions build on it. One row a rank. The sum of the excess less its mean rises where a rank is slow and falls
-- elsewhere: from_step is the first step of the rise, to_step the last one. has_changed is 1 where the rise is beyond what noise
-- gives (three times the noise from step to step, times the root of their number) and the excess outside is less than half of
-- that inside; else from_step and to_step are the first and the last step. The sums are whole ns: the last one is 0 but for what
-- doubles lose, and that, which differs from run to run, would else decide which step is the lowest.
WITH means AS (
  SELECT job, attempt, rank, AVG(excess_ns) AS mean_ns, COUNT(*) AS steps, MIN(step) AS first_step, MAX(step) AS last_step
  FROM excess GROUP BY job, attempt, rank),
sums AS (
  SELECT e.job, e.attempt, e.rank, e.step,
         ROUND(SUM(e.excess_ns - m.mean_ns) OVER (PARTITION BY e.job, e.attempt, e.rank ORDER BY e.step
                                                  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)) AS sum_ns,
         e.excess_ns - LAG(e.excess_ns) OVER (PARTITION BY e.job, e.attempt, e.rank ORDER BY e.step) AS change_ns
  FROM excess e JOIN means m ON e.job = m.job AND e.attempt = m.attempt AND e.rank = m.rank),
placed AS (
  SELECT s.*, ROW_NUMBER() OVER (PARTITION BY job, attempt, rank ORDER BY sum_ns, step DESC) AS place_from_low,
         ROW_NUMBER() OVER (PARTITION BY job, attempt, rank ORDER BY sum_ns DESC, step DESC) AS place_from_high
  FROM sums s),
places AS (
  SELECT job, attempt, rank, GREATEST(MAX(sum_ns), 0e0) - LEAST(MIN(sum_ns), 0e0) AS range_ns,
         SQRT(AVG(change_ns * change_ns) / 2e0) AS noise_ns,
         MAX(CASE WHEN place_from_low = 1 AND sum_ns < 0e0 THEN step END) AS low_step,
         MAX(CASE WHEN place_from_high = 1 AND sum_ns > 0e0 THEN step END) AS high_step
  FROM placed GROUP BY job, attempt, rank),
rises AS (
  SELECT p.job, p.attempt, p.rank, p.range_ns, p.noise_ns, m.steps, m.first_step, m.last_step,
         COALESCE(p.low_step + 1, m.first_step) AS from_step,
         CASE WHEN COALESCE(p.high_step, m.last_step) > COALESCE(p.low_step, m.first_step - 1)
              THEN COALESCE(p.high_step, m.last_step) ELSE m.last_step END AS to_step
  FROM places p JOIN means m ON p.job = m.job AND p.attempt = m.attempt AND p.rank = m.rank),
levels AS (
  SELECT r.job, r.attempt, r.rank, r.from_step, r.to_step, r.first_step, r.last_step, r.steps, r.range_ns, r.noise_ns,
         AVG(CASE WHEN e.step BETWEEN r.from_step AND r.to_step THEN e.excess_ns END) AS inside_ns,
         AVG(CASE WHEN e.step NOT BETWEEN r.from_step AND r.to_step THEN e.excess_ns END) AS outside_ns
  FROM rises r JOIN excess e ON e.job = r.job AND e.attempt = r.attempt AND e.rank = r.rank
  GROUP BY r.job, r.attempt, r.rank, r.from_step, r.to_step, r.first_step, r.last_step, r.steps, r.range_ns, r.noise_ns),
judged AS (
  SELECT l.*, CASE WHEN range_ns > 3e0 * noise_ns * SQRT(steps) AND inside_ns > 2e0 * outside_ns THEN 1 ELSE 0 END AS has_changed
  FROM levels l)
SELECT job, attempt, rank, steps, has_changed, inside_ns, outside_ns, first_step, last_step,
       CASE WHEN has_changed = 1 THEN from_step ELSE first_step END AS from_step,
       CASE WHEN has_changed = 1 THEN to_step ELSE last_step END AS to_step
FROM judged
