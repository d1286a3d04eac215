import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.DumpLogSegments;

/**
 * Runs DumpLogSegments once for every line on stdin, "output file TAB argument TAB argument ...": stdout and stderr of
 * the tool go to that file. For each prints the exit code, or the class of what was thrown.
 */
public final class DumpMany {
    private static final class Exited extends RuntimeException {
        private final int code;

        Exited(int code) {
            this.code = code;
        }
    }

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure((code, message) -> {
            throw new Exited(code);
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            String[] arguments = java.util.Arrays.copyOfRange(words, 1, words.length);
            String answer = "0";
            try (OutputStream file = new BufferedOutputStream(Files.newOutputStream(Path.of(words[0])), 1 << 16);
                 PrintStream out = new PrintStream(file, false, StandardCharsets.UTF_8)) {
                System.setOut(out);
                System.setErr(out);
                DumpLogSegments.main(arguments);
            } catch (Exited exit) {
                answer = String.valueOf(exit.code);
            } catch (Throwable thrown) {
                answer = thrown.getClass().getName();
            }
            answers.println(answer);
            answers.flush();
        }
    }
}
