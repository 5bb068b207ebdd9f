-- How long steps take on each rank.
-- One row a rank, the longest own time first; ns. own_median_ns: without exposed collectives. variation: the standard deviation as
-- a share of the mean.
SELECT job, attempt, rank, host, COUNT(*) AS steps, MEDIAN(duration_ns) AS median_ns,
       PERCENTILE_CONT(0.99) WITHIN GROUP (ORDER BY duration_ns) AS p99_ns,
       STDDEV_SAMP(duration_ns) / AVG(duration_ns) AS variation, MEDIAN(own_ns) AS own_median_ns
FROM own_time
GROUP BY job, attempt, rank, host
ORDER BY own_median_ns DESC, job, attempt, rank
