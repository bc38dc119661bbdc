# THE law of layering: each room and the rooms whose headers it may include. Nothing is inherited.
# CMakeLists.txt links each room to exactly its line; scripts/check.py reads the includes against it.
octavo_room(base)
octavo_room(tensor      base)
octavo_room(text        base)
octavo_room(kv          base tensor)
octavo_room(checkpoint  base tensor)
octavo_room(ops         base tensor kv)
octavo_room(cpu         base tensor kv ops)
octavo_room(cuda        base tensor kv ops)
octavo_room(model       base tensor kv ops checkpoint)
octavo_room(engine      base tensor kv ops checkpoint text model)
octavo_room(tool        base tensor text kv ops checkpoint model engine)
octavo_room(app         base kv engine tool cpu cuda)
