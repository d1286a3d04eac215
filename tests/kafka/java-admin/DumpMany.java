import java.io.BufferedReader;
import java.io.BufferedOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.kafka.tools.DumpLogSegments;

/**
 * As `java/DumpMany.java`, for a Kafka without the class that catches exits: if the tool refuses a file, this process
 * ends with it.
 */
public final class DumpMany {
    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            String answer = "0";
            try (OutputStream file = new BufferedOutputStream(Files.newOutputStream(Path.of(words[0])), 1 << 16);
                 PrintStream out = new PrintStream(file, false, StandardCharsets.UTF_8)) {
                System.setOut(out);
                System.setErr(out);
                DumpLogSegments.main(Arrays.copyOfRange(words, 1, words.length));
            } catch (RuntimeException thrown) {
                answer = thrown.getClass().getName();
            }
            answers.println(answer);
            answers.flush();
        }
    }
}
