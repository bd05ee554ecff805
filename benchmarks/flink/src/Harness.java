import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/**
 * A warm Flink process. Its arguments are configuration entries, "key=value". Every line on standard input names a
 * script, whose statements are parted by lines "----"; the last one is the job. After it, one line is printed:
 * "RESULT net wall", the job's own run time and the time of its executeSql until the end, both in milliseconds; or
 * "FAILED message".
 */
public final class Harness {
    public static void main(String[] entries) throws Exception {
        Configuration configuration = new Configuration();
        for (String entry : entries) {
            int at = entry.indexOf('=');
            configuration.setString(entry.substring(0, at), entry.substring(at + 1));
        }
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String script = commands.readLine(); script != null; script = commands.readLine()) {
            String answer;
            try {
                answer = run(configuration, Files.readString(Path.of(script)).split("\n----\n"));
            } catch (Exception failure) {
                Throwable cause = failure;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                answer = "FAILED " + String.valueOf(cause).replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
        System.exit(0);
    }

    private static String run(Configuration configuration, String[] statements) throws Exception {
        TableEnvironment tables = TableEnvironment.create(
                EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build());
        for (int i = 0; i < statements.length - 1; i++) {
            tables.executeSql(statements[i]);
        }
        long start = System.nanoTime();
        TableResult result = tables.executeSql(statements[statements.length - 1]);
        long net = result.getJobClient().orElseThrow().getJobExecutionResult().get().getNetRuntime();
        return "RESULT " + net + " " + (System.nanoTime() - start) / 1_000_000;
    }
}
