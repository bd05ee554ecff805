package stateplan;

import java.util.Map;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.streaming.state.StateRewriter;
import scala.Option;
import scala.Some;
import scala.runtime.AbstractFunction1;

/** Writes other rows of state than those that Spark's rewriter of state has read. */
public class StoredState extends AbstractFunction1 {
    private Map rows;

    /** Writes micro-batch 1 of a checkpoint, from rows by number of the operator; others as in micro-batch 0. */
    public Option write(SparkSession session, String folder, Map rows) {
        this.rows = rows;
        return new StateRewriter(
                session, 0L, 1L, folder, session.sessionState().newHadoopConf(),
                Option.empty(), new Some(this), Option.empty())
            .run();
    }

    public Object apply(Object frame) {
        Object source = ((Dataset) frame).queryExecution().analyzed().collectLeaves().head();
        String operator = ((DataSourceV2Relation) source).options().get("operatorId");
        Object others = rows.get(Integer.valueOf(operator));
        return others == null ? frame : others;
    }
}
