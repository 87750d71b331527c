# The groups of the benchmark, one module each. A module has TITLE and run(bench), which adds results and goals.
