#!/bin/sh
# A candidate is merged only where it is shown to be not worse than production by a margin, on all queries and on
# every device:  sh examples/gate.sh judged.csv production.txt candidate.txt [MARGIN]
# Exit code 0: it passes; 3: it is worse by more than the margin; 4: these queries cannot tell; 2: bad input.

summary="${GITHUB_STEP_SUMMARY:-gate.md}"
rankwise compare "$1" production="$2" candidate="$3" --metrics ndcg@10 --segment device \
  --not-worse-than "${4:-0.01}" --format markdown --output gate.json --force >>"$summary"
code=$?
case $code in
  0) echo "The candidate is not worse than production." ;;
  3) echo "::error::The candidate is worse than production by more than the margin, see the summary." ;;
  4) echo "::error::These queries cannot tell: judge more of them, or allow the smallest margin of the summary." ;;
esac
exit $code
