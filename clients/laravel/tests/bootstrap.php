<?php

// Loads the packages of Debian, this package, and the classes that the tests of the PHP adapters share.
declare(strict_types=1);

require_once '/usr/share/php/Illuminate/autoload.php';

require_once dirname(__DIR__, 2) . '/php/tests/autoload.php';
Jobq\Tests\autoload(['Jobq\\Laravel\\Tests\\' => __DIR__, 'Jobq\\Laravel\\' => dirname(__DIR__) . '/src']);
