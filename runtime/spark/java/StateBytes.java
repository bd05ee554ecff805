package stateplan;

import java.io.IOException;
import java.io.OutputStream;
import net.razorvine.pickle.IObjectPickler;
import net.razorvine.pickle.Opcodes;
import net.razorvine.pickle.Pickler;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.python.EvaluatePython;
import org.apache.spark.sql.execution.python.EvaluatePython$;

/** Pickles bytes as bytes, where Spark makes a text of them, which Python turns into bytes again. */
public class StateBytes implements IObjectPickler {
    public void adapt(SparkSession session) {
        EvaluatePython$.MODULE$.registerPicklers();
        Pickler.registerCustomPickler(EvaluatePython.BytesWrapper.class, this);
    }

    public void pickle(Object bytes, OutputStream out, Pickler pickler) throws IOException {
        byte[] data = ((EvaluatePython.BytesWrapper) bytes).data();
        out.write(Opcodes.BINBYTES);
        for (int shift = 0; shift < 32; shift += 8) {
            out.write(data.length >>> shift);
        }
        out.write(data);
    }
}
