"""What can be known to be wrong before anything is spent.

findings     what a finding is, and every kind of it
reading      the data as it is, defects noted and not refused
text         each side by itself: encoding, script, case, form
pairs        sides that belong together: shifted, swapped, copied
offsets      where one side runs ahead of the other
examples     what is there twice, and what leaked from one part into another
labels       balance, labels that training lacks
series       numbers and times
coverage     tokenizer and checkpoint against the data
cost         memory and time from measured steps, and the disk
examination  all of it for a recipe: in full, or what is cheap
"""
