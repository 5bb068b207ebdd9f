-- Which ranks became slower, or faster again, within the run.
-- One row a rank that has changed; ns a step. The excess over the ranks that are alike inside the steps from from_step to to_step,
-- and outside of them.
SELECT job, attempt, rank, from_step, to_step, first_step, last_step, inside_ns, outside_ns
FROM slow_periods
WHERE has_changed = 1
ORDER BY inside_ns DESC, job, attempt, rank
LIMIT 20
