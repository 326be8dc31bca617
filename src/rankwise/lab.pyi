from rankwise.wings.lab.experiments.reproduce import reproduce as reproduce
from rankwise.wings.lab.experiments.results import Results as Results
from rankwise.wings.lab.experiments.spec import Spec as Spec
from rankwise.wings.lab.report.comparison import write_comparison as write_comparison
from rankwise.wings.lab.report.write import write_report as write_report
