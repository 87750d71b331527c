<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use Illuminate\Contracts\Debug\ExceptionHandler;
use Throwable;

/** Keeps the exceptions that the worker reports. */
final class Errors implements ExceptionHandler
{
    /** @var Throwable[] */
    public array $reported = [];

    public function report(Throwable $e): void
    {
        $this->reported[] = $e;
    }

    public function shouldReport(Throwable $e): bool
    {
        return true;
    }

    public function render($request, Throwable $e): never
    {
        throw $e;
    }

    public function renderForConsole($output, Throwable $e): void
    {
        $output->writeln((string) $e);
    }
}
