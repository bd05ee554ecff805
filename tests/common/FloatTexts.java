import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;

/** Reads bits in hexadecimal, 16 digits for a double and 8 for a float, and prints Java's text of each. */
class FloatTexts {
    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String bits = in.readLine(); bits != null; bits = in.readLine()) {
            String text = bits.length() == 16
                    ? Double.toString(Double.longBitsToDouble(Long.parseUnsignedLong(bits, 16)))
                    : Float.toString(Float.intBitsToFloat(Integer.parseUnsignedInt(bits, 16)));
            out.append(text).append('\n');
        }
        System.out.print(out);
    }
}
