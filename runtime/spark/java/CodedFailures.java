package stateplan;

import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.Filter;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.config.LoggerConfig;
import org.apache.logging.log4j.core.filter.AbstractFilter;
import org.apache.spark.sql.classic.SparkSession;

/** Keeps failures that a job raises in Python, with a code, out of the log. */
public class CodedFailures {
    public static class Coded extends AbstractFilter {
        private static final String MARK = "<<stateplan:";

        public Filter.Result filter(LogEvent event) {
            if (isCoded(event.getMessage().getFormattedMessage())) {
                return Filter.Result.DENY;
            }
            Throwable cause = event.getThrown();
            for (int depth = 0; cause != null && depth < 20; depth++) {
                if (isCoded(cause.getMessage())) {
                    return Filter.Result.DENY;
                }
                cause = cause.getCause();
            }
            return Filter.Result.NEUTRAL;
        }

        private static boolean isCoded(String text) {
            return text != null && (text.contains(MARK) || text.startsWith("Value state manifest "));
        }
    }

    public void adapt(SparkSession session) {
        LoggerContext context = (LoggerContext) LogManager.getContext(false);
        Object[] loggers = context.getConfiguration().getLoggers().values().toArray();
        for (int i = 0; i < loggers.length; i++) {
            ((LoggerConfig) loggers[i]).addFilter(new Coded());
        }
        context.updateLoggers();
    }
}
