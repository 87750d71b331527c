# The groups of the benchmark, one module each: TITLE, and run(bench), which adds results and goals.
