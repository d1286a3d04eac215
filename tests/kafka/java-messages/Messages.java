import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/** Reads lines "class version hex", and prints "bytes left, tab, written again as hex, tab, JSON" with Kafka's generated classes. */
public final class Messages {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.",
        "org.apache.kafka.storage.internals.log.generated.",
        "org.apache.kafka.raft.generated.",
    };

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            short version = Short.parseShort(words[1]);
            Class<?> kind = find(words[0]);
            Message message = (Message) kind.getDeclaredConstructor().newInstance();
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words[2]));
            try {
                message.read(new ByteBufferAccessor(bytes), version);
            } catch (RuntimeException refused) {
                out.println("refused");
                continue;
            }
            ByteBuffer again = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] content = new byte[again.remaining()];
            again.get(content);
            JsonNode json = (JsonNode) Class.forName(kind.getName() + "JsonConverter")
                .getMethod("write", kind, short.class).invoke(null, message, version);
            out.println(bytes.remaining() + "\t" + HexFormat.of().formatHex(content) + "\t" + json);
        }
        out.flush();
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String prefix : PACKAGES) {
            try {
                return Class.forName(prefix + name);
            } catch (ClassNotFoundException other) {
                // in another package
            }
        }
        throw new ClassNotFoundException(name);
    }
}
