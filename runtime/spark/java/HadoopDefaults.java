package stateplan;

import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.classic.SparkSession;

/** Removes the defaults of YARN and MapReduce from Hadoop's options. */
public class HadoopDefaults {
    public void adapt(SparkSession session) {
        Configuration options = session.sparkContext().hadoopConfiguration();
        for (Object entry : options) {
            String key = (String) ((Map.Entry) entry).getKey();
            String[] sources = options.getPropertySources(key);
            if (sources != null && sources.length == 1
                    && (sources[0].equals("yarn-default.xml") || sources[0].equals("mapred-default.xml"))) {
                options.unset(key);
            }
        }
    }
}
