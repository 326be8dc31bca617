"""What the commands of a wing are made of."""

from rankwise.cli import arguments as arguments
from rankwise.cli import console as console
from rankwise.cli import data as data
from rankwise.cli import inputs as inputs
from rankwise.cli import outputs as outputs
from rankwise.cli.command import BEGIN as BEGIN
from rankwise.cli.command import DATA as DATA
from rankwise.cli.command import EVALUATE as EVALUATE
from rankwise.cli.command import EXPERIMENTS as EXPERIMENTS
from rankwise.cli.command import TRAIN as TRAIN
from rankwise.cli.command import register as register
from rankwise.cli.command import register_group as register_group
from rankwise.cli.command import register_in as register_in
from rankwise.cli.data_options import Reading as Reading
from rankwise.cli.options import RUNNING as RUNNING
from rankwise.cli.options import But as But
from rankwise.cli.options import Of as Of
from rankwise.cli.options import Only as Only
from rankwise.cli.options import of as of
from rankwise.cli.running import Running as Running
from rankwise.cli.running import Seed as Seed
from rankwise.cli.segments import segment_of as segment_of
from rankwise.cli.train import rankers as rankers
