"""Values in Avro's binary form, by the writer's schema."""
