import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.util.HashMap;
import java.util.Map;

/** One line of stdin. Which fields a command has is said in storage_oracle.py. */
record Command(JsonNode fields) {
    private static final long NOW = 1_700_000_000_000L;

    String name() {
        return text("command", "");
    }

    File directory() {
        if (!has("directory")) {
            throw new IllegalArgumentException("no directory is named");
        }
        return new File(fields.get("directory").asText()).getAbsoluteFile();
    }

    long now() {
        return number("now", NOW);
    }

    boolean has(String field) {
        return fields.hasNonNull(field);
    }

    String text(String field, String otherwise) {
        return has(field) ? fields.get(field).asText() : otherwise;
    }

    long number(String field, long otherwise) {
        return has(field) ? fields.get(field).asLong() : otherwise;
    }

    double fraction(String field, double otherwise) {
        return has(field) ? fields.get(field).asDouble() : otherwise;
    }

    boolean flag(String field, boolean otherwise) {
        return has(field) ? fields.get(field).asBoolean() : otherwise;
    }

    /** The configuration of the topic, by Kafka's names. */
    Map<String, Object> configuration() {
        Map<String, Object> values = new HashMap<>();
        if (has("config")) {
            JsonNode given = fields.get("config");
            given.fieldNames().forEachRemaining(name -> values.put(name, given.get(name).asText()));
        }
        return values;
    }

    static ObjectNode object() {
        return JsonNodeFactory.instance.objectNode();
    }
}
