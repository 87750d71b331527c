#!/bin/bash
# make site: makes static pages of the documentation in build/site/html, which can be read from the disk or served by any web
# server (the search works only if they are served), and tests the pages in Chromium. docs/site.yml has the order of the pages.
#   SITE_PICTURES=DIR   a directory for screenshots
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh site
rm -rf build/site
mkdir -p build/site/pages
# Pages and the sources that they link to keep their paths, so all links work.
git ls-files -z | xargs -0 cp --parents -t build/site/pages
cp docs/site.yml build/site/mkdocs.yml
mkdocs build --quiet --strict --config-file build/site/mkdocs.yml --site-dir "$PWD/build/site/html"
echo "$(find build/site/html -name '*.html' | wc -l) pages: build/site/html/index.html"
WEB_CHROMIUM=$(command -v chromium || command -v chromium-browser) node web/test/site.mjs build/site/html
