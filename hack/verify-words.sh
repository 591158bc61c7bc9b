#!/usr/bin/env bash
# Fails if a tracked file contains a phrase that this project does not use. Every line
# of the table is an extended regular expression, matched without regard to case, and
# what to write instead. CONTRIBUTING.md describes the conventions.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly phrases='
stands? for (the|an) import|derived Service
offered to the other clusters|exported to the ClusterSet
(is|are|was) no members?\b|is not a member
\bone IP (in all|for all|for the whole|in every)|shared ClusterSet IP
in the way of the one|name conflict
to be had\b|available
what is to be done|Plan:
\bnews\b|changes, propagation
trying again|Failed to ..., retrying
says? who (it|they) (is|are)|cluster identity
is in no ClusterSet|not a member of a ClusterSet
the right to read|read access
or not any ?more|or expired
is not known here|is unknown
has not said( yet)?\b|not received yet
its claims are those of|cluster ID and ClusterSet match
(no one|nobody) (who|reads from)|name the clusters
\bwhoever\b|name the subject
kubectl( +--?[a-z-]+([ =][^ ]+)?)+ +mcs( |$)|kubectl mcs COMMAND --context CONTEXT (kubectl accepts no flags before the name of a plugin)
behaviour|behavior
neighbour|neighbor
favour|favor
colour|color
honour|honor
licence|license
\bcentre|center
(cancel|label|travel|model|signal)l(ed|ing)\b|canceled, labeled
materialis|materialize
(initial|serial|normal|minimal|optim|summar|organ|recogn|synchron|author|general|final)is(e|es|ed|ing|ation)\b|-ize, -ization
'

failed=0
while IFS= read -r line; do
  [[ -n $line ]] || continue
  pattern=${line%|*} instead=${line##*|}
  status=0
  found=$(git grep -nIiE -e "$pattern" -- ':!LICENSE' ':!pkg/generated' ':!*go.sum' ':!hack/verify-words.sh') || status=$?
  case $status in
  0)
    echo "$found" >&2
    echo "verify-words: do not use /$pattern/; write: $instead" >&2
    failed=1
    ;;
  1) ;; # not found
  *)
    echo "verify-words: git grep failed" >&2
    exit "$status"
    ;;
  esac
done <<<"$phrases"
exit $failed
