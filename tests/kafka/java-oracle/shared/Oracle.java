import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** Kafka's own storage classes without a broker: a command a line on stdin, an answer a line on stdout, both JSON. */
public final class Oracle {
    private Oracle() {
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever else prints must not get between the answers
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(json.writeValueAsString(answer(new Command(json.readTree(line)))));
            answers.flush();
        }
    }

    /** What Kafka throws is an answer too. A full heap is one: damaged bytes can declare a size that no heap holds. */
    private static ObjectNode answer(Command command) {
        try {
            return switch (command.name()) {
                case "recover" -> Maintenance.recover(command);
                case "clean" -> Maintenance.clean(command);
                case "retain" -> Maintenance.retain(command);
                case "offsets_before" -> Maintenance.offsetsBefore(command);
                case "write" -> Maintenance.write(command);
                case "generate" -> RandomLog.generate(command);
                case "bench" -> Bench.run(command);
                default -> throw new IllegalArgumentException("no such command: " + command.name());
            };
        } catch (Exception | InternalError | OutOfMemoryError thrown) { // InternalError: a mapped index was cut short
            ObjectNode answer = Command.object().put("thrown", thrown.getClass().getName());
            Throwable cause = thrown.getCause();
            answer.put("message", String.valueOf(thrown.getMessage()));
            answer.put("cause", cause == null ? null : cause.toString());
            return answer.put("at", at(thrown));
        }
    }

    /** The innermost places, for whoever looks at a difference. */
    private static String at(Throwable thrown) {
        StringBuilder places = new StringBuilder();
        StackTraceElement[] trace = thrown.getStackTrace();
        for (int depth = 0; depth < Math.min(6, trace.length); depth++) {
            places.append(depth == 0 ? "" : " < ").append(trace[depth]);
        }
        return places.toString();
    }
}
