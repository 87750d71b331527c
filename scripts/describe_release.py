"""Writes what catalogs and auditors read about a release: a bill of materials (CycloneDX) and a row for catalogs of extensions.

    describe_release.py META.json OUTPUT      in a checkout; writes OUTPUT.cdx.json and OUTPUT-catalog.csv

The bill of materials contains the extension, and what the dashboard and the Python library need at run time.
"""
import base64
import csv
import json
import re
import sys
from pathlib import Path


def npm_component(path, package):
    """Returns the component for an entry of package-lock.json."""
    name = path.rpartition("node_modules/")[2]
    algorithm, _, digest = package["integrity"].partition("-")
    group, _, base = name.rpartition("/")
    return {
        "type": "library",
        **({"group": group} if group else {}),
        "name": base,
        "version": package["version"],
        "purl": f"pkg:npm/{name.replace('@', '%40')}@{package['version']}",
        "licenses": [{"expression": package["license"]}],
        "hashes": [{"alg": algorithm.upper().replace("SHA", "SHA-"), "content": base64.b64decode(digest).hex()}],
    }


def bill_of_materials(meta):
    lock = json.loads(Path("web/package-lock.json").read_text(encoding="utf-8"))
    needed = {path: entry for path, entry in lock["packages"].items() if path and not entry.get("dev")}
    python = re.search(r'dependencies = \["([\w-]+)', Path("clients/python/pyproject.toml").read_text(encoding="utf-8"))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": "jobq",
                "name": meta["name"],
                "version": meta["version"],
                "description": meta["abstract"],
                "licenses": [{"license": {"id": "PostgreSQL"}}],
                "purl": f"pkg:generic/{meta['name']}@{meta['version']}",
            }
        },
        "components": [
            {"type": "application", "name": "postgresql", "purl": "pkg:generic/postgresql", "licenses": [{"license": {"id": "PostgreSQL"}}]},
            {"type": "library", "name": python[1], "purl": f"pkg:pypi/{python[1]}"},
            *(npm_component(path, entry) for path, entry in sorted(needed.items())),
        ],
    }


def catalog_row(meta):
    majors = re.findall(r"^\d+$", Path("debian/pgversions").read_text(encoding="utf-8"), re.MULTILINE)
    return {
        "name": meta["name"],
        "version": meta["version"],
        "url": meta["resources"]["homepage"],
        "license": "PostgreSQL",
        "description": meta["abstract"],
        "language": "C++",
        "postgresql_versions": " ".join(majors),
        "extensions": " ".join(meta["provides"]),
        "need_load": "true",
        "trusted": "false",
        "relocatable": "false",
    }


def main():
    meta = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    with open(f"{sys.argv[2]}.cdx.json", "w", encoding="utf-8") as file:
        json.dump(bill_of_materials(meta), file, indent=2)
        file.write("\n")
    with open(f"{sys.argv[2]}-catalog.csv", "w", encoding="utf-8", newline="") as file:
        row = catalog_row(meta)
        writer = csv.DictWriter(file, row, lineterminator="\n")
        writer.writeheader()
        writer.writerow(row)


main()
