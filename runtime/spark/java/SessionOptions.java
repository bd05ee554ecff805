package stateplan;

import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.runtime.AbstractFunction0;

/** Gives threads without a session the options of the job's. */
public class SessionOptions {
    public static class Getter extends AbstractFunction0 {
        private final SparkSession session;

        public Getter(SparkSession session) {
            this.session = session;
        }

        public Object apply() {
            Option active = org.apache.spark.sql.classic.SparkSession$.MODULE$.getActiveSession();
            SparkSession mine = active.isDefined() ? (SparkSession) active.get() : this.session;
            return mine.sparkContext().isStopped() ? SQLConf.getFallbackConf() : mine.sessionState().conf();
        }
    }

    public void adapt(SparkSession session) {
        Getter getter = new Getter(session);
        getter.apply();
        SQLConf.setSQLConfGetter(getter);
    }
}
