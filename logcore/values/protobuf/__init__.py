"""Values in Protobuf's binary form, by compiled schemas: no Protobuf library, no generated classes."""
