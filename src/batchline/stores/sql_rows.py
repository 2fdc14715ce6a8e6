"""The tables of all stages in a SQL database."""

from batchline.stores.sql_capacity import SqlCapacityRows
from batchline.stores.sql_lanes import SqlLaneRows
from batchline.stores.sql_reports import SqlReportRows
from batchline.stores.sql_timeline import SqlTimelineRows
from batchline.stores.sql_tokens import SqlTokenRows
from batchline.stores.sql_tracker import SqlTrackerRows

__all__ = ["SqlRows"]


class SqlRows(SqlTrackerRows, SqlTimelineRows, SqlCapacityRows, SqlLaneRows, SqlTokenRows, SqlReportRows):
    """The tables of all stages and of the service, on one session."""
