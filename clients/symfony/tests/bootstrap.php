<?php

// Loads the packages of Debian, this package, and the classes that the tests of the PHP adapters share.
declare(strict_types=1);

foreach (['Symfony/Component/Messenger', 'Symfony/Component/Console', 'Symfony/Component/EventDispatcher', 'Doctrine/DBAL', 'Doctrine/Persistence'] as $package) {
    require_once "/usr/share/php/$package/autoload.php";
}

require_once dirname(__DIR__, 2) . '/php/tests/autoload.php';
Jobq\Tests\autoload(['Jobq\\Messenger\\Tests\\' => __DIR__, 'Jobq\\Messenger\\' => dirname(__DIR__) . '/src']);
