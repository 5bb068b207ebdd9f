-- Which ranks take longest by their own doing, and the cause of each.
-- One row a rank, the slowest twenty; ns a step. excess_ns: more than the ranks that are alike, of score of the step; spread_ns:
-- what ranks differ by usually. is_slow, cause and coverage as in the view ranks: a rank with 0 does not stand out.
SELECT job, attempt, rank, host, from_step, to_step, slow_steps, steps, step_ns, excess_ns, score, spread_ns, is_slow, cause, coverage
FROM ranks
ORDER BY score DESC, job, attempt, rank
LIMIT 20
