import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.util.Properties;
import java.util.TreeMap;

/** For each file on stdin (int32 length, bytes): its properties as UTF-16 units in hex, or `refused`. */
public class Loaded {
    public static void main(String[] arguments) throws Exception {
        DataInputStream in = new DataInputStream(System.in);
        StringBuilder out = new StringBuilder();
        for (int left = in.readInt(); left > 0; left--) {
            byte[] content = new byte[in.readInt()];
            in.readFully(content);
            Properties found = new Properties();
            try {
                found.load(new ByteArrayInputStream(content));
                TreeMap<String, String> sorted = new TreeMap<>();
                found.stringPropertyNames().forEach(name -> sorted.put(units(name), units(found.getProperty(name))));
                sorted.forEach((name, value) -> out.append(name).append(':').append(value).append(' '));
                out.append('\n');
            } catch (IllegalArgumentException malformed) {
                out.append("refused\n");
            }
        }
        System.out.print(out);
    }

    private static String units(String text) {
        StringBuilder out = new StringBuilder();
        text.chars().forEach(unit -> out.append(String.format("%04x", unit)));
        return out.toString();
    }
}
