#!/bin/sh
# Prints an install script of the cluster: cluster_script.sh shard, or cluster_script.sh router JOBQ, where JOBQ is the install
# script of jobq, which has the signatures of the calls. scripts/cluster_script.awk makes it.
jobq=${2:+$(realpath "$2")}
cd "$(dirname "$0")/.." || exit 1
case $1 in
shard) exec awk -v shared=sql/router/bucket_of.part -f scripts/cluster_script.awk sql/shard/*.sql ;;
router) exec awk -v shared=sql/router/bucket_of.part -f scripts/cluster_script.awk "$jobq" sql/router/routes sql/router/*.sql ;;
esac
echo "usage: $0 shard | router JOBQ" >&2
exit 2
