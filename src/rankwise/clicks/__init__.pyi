from .log import Log as Log
from .log import Sessions as Sessions
from .model_fitting import click_model as click_model
from .models import ClickModel as ClickModel
from .simulation import Users as Users
from .simulation import simulate as simulate
