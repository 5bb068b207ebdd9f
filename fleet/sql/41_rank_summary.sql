-- What each rank takes for a step by its own doing.
-- One row a rank; ns a step of own time. error_ns: the standard error of the mean, from step to step.
SELECT rank, COUNT(*) AS steps, AVG(own_ns) AS mean_ns, COALESCE(STDDEV_SAMP(own_ns), 0e0) / SQRT(COUNT(*)) AS error_ns
FROM own_time
GROUP BY rank
ORDER BY rank
