package stateplan;

import com.sun.management.HotSpotDiagnosticMXBean;
import java.lang.management.ManagementFactory;
import javax.management.JMException;
import javax.management.ObjectName;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.streaming.StreamingQueryListener;

/**
 * Collects garbage once a query has been idle for a minute, so that the JVM gives memory back to the system. The heap
 * may have little free memory for this one collection. A heap that is small all the time costs more collections.
 */
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
                HotSpotDiagnosticMXBean jvm =
                    (HotSpotDiagnosticMXBean) ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class);
                String least = jvm.getVMOption("MinHeapFreeRatio").getValue();
                String most = jvm.getVMOption("MaxHeapFreeRatio").getValue();
                jvm.setVMOption("MinHeapFreeRatio", "5");
                jvm.setVMOption("MaxHeapFreeRatio", "15");
                System.gc();
                jvm.setVMOption("MaxHeapFreeRatio", most);
                jvm.setVMOption("MinHeapFreeRatio", least);
                trim();
            }
        }

        /** Gives back what the C library keeps for native allocations. */
        private static void trim() {
            try {
                ManagementFactory.getPlatformMBeanServer().invoke(
                    new ObjectName("com.sun.management:type=DiagnosticCommand"), "systemTrimNativeHeap",
                    new Object[0], new String[0]);
            } catch (JMException missing) {
                return; // Java before 17.0.2, or another system than Linux
            }
        }

        public void onQueryTerminated(StreamingQueryListener.QueryTerminatedEvent event) {
        }
    }

    public void adapt(SparkSession session) {
        session.streams().addListener(new Listener());
    }
}
