#!/bin/bash
# make site: the documentation as a site of static pages in build/site/html, to be looked at from the disk or served by anything.
# A link that leads nowhere is an error. The order of the pages: docs/site.yml.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh site
rm -rf build/site
mkdir -p build/site/pages
# Pages keep their places, and the sources that they point to go with them: so every link holds.
git ls-files -z | xargs -0 cp --parents -t build/site/pages
cp docs/site.yml build/site/mkdocs.yml
mkdocs build --quiet --strict --config-file build/site/mkdocs.yml --site-dir "$PWD/build/site/html"
echo "$(find build/site/html -name '*.html' | wc -l) pages: build/site/html/index.html"
