#!/bin/sh
# Prints an install script of the cluster: cluster_script.sh shard, or cluster_script.sh router JOBQ, where JOBQ is the install
# script of jobq, which has the signatures of the calls. scripts/cluster_script.awk makes it.
cd "$(dirname "$0")/.." || exit 1
case $1 in
shard) exec awk -v shared=src/sql/router/bucket_of.part -f scripts/cluster_script.awk src/sql/shard/*.sql ;;
router) exec awk -v shared=src/sql/router/bucket_of.part -f scripts/cluster_script.awk "$2" src/sql/router/routes src/sql/router/*.sql ;;
esac
echo "usage: $0 shard | router JOBQ" >&2
exit 2
