package stateplan;

import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.streaming.StreamingQueryListener;

/** Collects garbage once a query has been idle for a minute, so that the JVM gives memory back to the system. */
public class IdleHeap {
    public static class Listener extends StreamingQueryListener {
        private static final long IDLE_MILLIS = 60000;

        private long since = System.currentTimeMillis();
        private boolean collected = false;

        public void onQueryStarted(StreamingQueryListener.QueryStartedEvent event) {
        }

        public void onQueryProgress(StreamingQueryListener.QueryProgressEvent event) {
            since = System.currentTimeMillis();
            collected = false;
        }

        public void onQueryIdle(StreamingQueryListener.QueryIdleEvent event) {
            if (!collected && System.currentTimeMillis() - since >= IDLE_MILLIS) {
                collected = true;
                System.gc();
            }
        }

        public void onQueryTerminated(StreamingQueryListener.QueryTerminatedEvent event) {
        }
    }

    public void adapt(SparkSession session) {
        session.streams().addListener(new Listener());
    }
}
